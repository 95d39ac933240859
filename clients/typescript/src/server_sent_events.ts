// Reads a stream of server-sent events block by block.

/** One block: a position, an event, or both. */
export interface Block {
  id: string | undefined;
  data: string;
}

/** A function that returns the next block, and `undefined` at the end of the stream. */
export function blocks(body: ReadableStream<Uint8Array>): () => Promise<Block | undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let unread = "";
  return async () => {
    for (;;) {
      const end = unread.indexOf("\n\n");
      if (end >= 0) {
        const block = blockOf(unread.slice(0, end));
        unread = unread.slice(end + 2);
        return block;
      }
      const { done, value } = await reader.read();
      if (done) return undefined;
      unread += decoder.decode(value, { stream: true }).replaceAll("\r", "");
    }
  };
}

function blockOf(text: string): Block {
  const lines = text.split("\n");
  const values = (field: string) =>
    lines.filter((line) => line.startsWith(`${field}:`)).map((line) => line.slice(field.length + 1).trimStart());
  return { id: values("id").at(-1), data: values("data").join("\n") };
}
