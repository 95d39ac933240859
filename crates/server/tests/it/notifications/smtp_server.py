"""A mail server that appends each mail that it takes to a file, as a line of JSON.

    python smtp_server.py PORT MAILS BUSY

While the file BUSY exists, it answers "later" to every recipient. A recipient whose name begins with "refused" it does not know.
While the file `policy` beside BUSY exists, it has the answer to each MAIL FROM, or to each RCPT TO of a recipient whose name begins with
"bad": `mail` or `rcpt`, a blank, and the answer. It does not offer SMTPUTF8.
"""

import email
import email.policy
import json
import pathlib
import signal
import sys

from aiosmtpd.controller import Controller

PORT, MAILS, BUSY = int(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
POLICY = BUSY.with_name("policy")


def policy(step):
    """The answer to a step, if there is one."""
    try:
        about, answer = POLICY.read_text().split(" ", 1)
    except FileNotFoundError:
        return None
    return answer if about == step else None


class Handler:
    async def handle_MAIL(self, server, session, envelope, address, mail_options):
        if answer := policy("mail"):
            return answer
        envelope.mail_from = address
        envelope.mail_options.extend(mail_options)
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):
        if address.startswith("bad") and (answer := policy("rcpt")):
            return answer.replace("ADDRESS", address)
        if BUSY.exists():
            return "451 4.3.2 later"
        if address.startswith("refused"):
            return f"550 5.1.1 <{address}> is unknown"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        line = {name: str(mail[name]) for name in ("from", "to", "subject", "message-id", "auto-submitted")}
        line["text"] = mail.get_content()
        line["ehlo"] = session.host_name
        with MAILS.open("a") as mails:
            mails.write(json.dumps(line) + "\n")
        return "250 OK"


controller = Controller(Handler(), hostname="127.0.0.1", port=PORT, enable_SMTPUTF8=False)
controller.start()
print("listening", flush=True)
signal.pause()
