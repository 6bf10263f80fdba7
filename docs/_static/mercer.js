// A picture that had to be made smaller opens by itself, in its own size, at a click.
document.addEventListener("DOMContentLoaded", () => {
  const pictures = [...document.querySelectorAll(".content img")].filter(
    (img) => !img.closest("a, .sphx-glr-thumbcontainer"),
  );
  const mark = (img) =>
    img.parentNode.classList.toggle("smaller", img.clientWidth < 0.95 * img.naturalWidth);
  for (const img of pictures) {
    const link = document.createElement("a");
    link.className = "picture";
    link.href = img.src;
    img.replaceWith(link);
    link.append(img);
    if (img.complete) mark(img);
    img.addEventListener("load", () => mark(img));
  }
  window.addEventListener("resize", () => pictures.forEach(mark));
});
