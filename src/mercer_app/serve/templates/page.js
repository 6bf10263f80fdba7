"use strict";
(() => {
  const place = document.getElementById("batch"), said = document.getElementById("said");
  const box = document.getElementById("file"), most = Number(place.dataset.most);
  const show = (text, wrong) => {
    said.textContent = text;
    said.className = wrong ? "wrong" : "";
  };
  const predict = async (file) => {
    if (file.size > most) {
      show(`${file.name} has more than ${most >> 20} MB. Use mercer predict.`, true);
      return;
    }
    show(`Predicting for ${file.name} ...`);
    try {
      const answer = await fetch(place.dataset.address, {
        method: "POST", headers: {"Content-Type": "application/octet-stream"}, body: file,
      });
      if (!answer.ok) {
        show((await answer.json()).error, true);
        return;
      }
      const notes = JSON.parse(answer.headers.get("Mercer-Notes") || "[]");
      const rows = Number(answer.headers.get("Mercer-Rows")).toLocaleString("en");
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await answer.blob());
      link.download = `${file.name.replace(/[.].*$/, "")}-predictions.csv`;
      link.textContent = link.download;
      show(`${rows} predictions: `);
      said.append(link);
      for (const note of notes) {
        const line = document.createElement("p");
        line.textContent = note;
        said.append(line);
      }
      link.click();
    } catch {
      show("There was no answer. Is mercer serve still running?", true);
    }
  };
  box.addEventListener("change", () => { if (box.files.length) predict(box.files[0]); });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      place.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files.length) predict(event.dataTransfer.files[0]);
    });
  }
})();
