import { instantiate } from "./tilewright/index.js";

const SIDE = 8; // the network sees 8 x 8 numbers from 0 to 1
const drawing = document.getElementById("drawing"), pen = drawing.getContext("2d", { willReadFrequently: true });
const small = document.getElementById("small").getContext("2d");
const scores = document.getElementById("scores"), status = document.getElementById("status");

const tvm = await instantiate();
const library = await tvm.loadModule(new URL("digits.wasm", import.meta.url));
const network = tvm.createExecutor(library);

scores.innerHTML = Array.from({ length: 10 }, (_, digit) => `<li><span>${digit}</span><meter></meter><span class="share"></span></li>`).join("");

function clear() {
  pen.fillStyle = "black";
  pen.fillRect(0, 0, drawing.width, drawing.height);
  show([]);
  status.textContent = "Ready.";
}

/** How much of each of 8 x 8 squares is white, of the part that has white, made as large as the pictures that the network learned from. */
function picture() {
  const { data, width, height } = pen.getImageData(0, 0, drawing.width, drawing.height);
  const white = (x, y) => data[4 * (y * width + x)] / 255;
  let [left, right, top, bottom] = [width, -1, height, -1];
  for (let y = 0; y < height; ++y)
    for (let x = 0; x < width; ++x)
      if (white(x, y) > 0.5) [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  const seen = new Float32Array(SIDE * SIDE);
  if (right < 0) return seen;
  const size = Math.max(bottom - top + 1, (right - left + 1) * 1.1), step = size / SIDE;
  const x0 = (left + right + 1 - size) / 2, y0 = (top + bottom + 1 - size) / 2;
  for (let i = 0; i < SIDE * SIDE; ++i) {
    let sum = 0;
    const parts = 8;
    for (let k = 0; k < parts * parts; ++k) {
      const x = Math.floor(x0 + step * ((i % SIDE) + ((k % parts) + 0.5) / parts)), y = Math.floor(y0 + step * (Math.floor(i / SIDE) + (Math.floor(k / parts) + 0.5) / parts));
      if (x >= 0 && x < width && y >= 0 && y < height) sum += white(x, y);
    }
    seen[i] = Math.min(1, (1.2 * sum) / (parts * parts));
  }
  return seen;
}

function show(shares) {
  const best = shares.indexOf(Math.max(...shares));
  [...scores.children].forEach((row, digit) => {
    row.classList.toggle("best", digit === best);
    row.querySelector("meter").value = shares[digit] ?? 0;
    row.querySelector(".share").textContent = digit in shares ? `${(100 * shares[digit]).toFixed(1)} %` : "";
  });
  return best;
}

function classify() {
  const seen = picture(), image = small.createImageData(SIDE, SIDE);
  seen.forEach((v, i) => image.data.set([255 * v, 255 * v, 255 * v, 255], 4 * i));
  small.putImageData(image, 0, 0);
  const begin = performance.now();
  network.setInput("picture", seen);
  network.run();
  const best = show(tvm.withNewScope(() => Array.from(network.getOutput(0).toArray())));
  status.textContent = `It is a ${best}. The network took ${(performance.now() - begin).toFixed(2)} ms.`;
}

let last = null;
const place = (event) => {
  const box = drawing.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
drawing.addEventListener("pointerdown", (event) => {
  last = place(event);
  drawing.setPointerCapture(event.pointerId);
});
drawing.addEventListener("pointermove", (event) => {
  if (!last) return;
  const next = place(event);
  Object.assign(pen, { strokeStyle: "white", lineWidth: 26, lineCap: "round" });
  pen.beginPath();
  pen.moveTo(...last);
  pen.lineTo(...next);
  pen.stroke();
  last = next;
});
drawing.addEventListener("pointerup", () => {
  last = null;
  classify();
});
document.getElementById("clear").addEventListener("click", clear);
document.getElementById("file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  const image = await createImageBitmap(file);
  clear();
  pen.drawImage(image, 0, 0, drawing.width, drawing.height);
  classify();
});
clear();
