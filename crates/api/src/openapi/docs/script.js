"use strict";
// The page is whole without this: it copies, filters, and shows where this very server is.
for (const base of document.querySelectorAll(".base")) {
  if (location.origin.startsWith("http")) base.textContent = location.origin;
}
for (const sample of document.querySelectorAll(".sample")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const code = sample.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  sample.querySelector("pre").before(button);
}
const filter = document.querySelector("#filter");
if (filter) {
  filter.parentElement.classList.remove("hidden");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const shown of document.querySelectorAll("[data-find]")) {
      const text = shown.dataset.find;
      shown.classList.toggle("hidden", !words.every((word) => text.includes(word)));
    }
  });
}
const open = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", open);
open();
if (matchMedia("(max-width: 62rem)").matches) document.querySelector("#routes")?.removeAttribute("open");
