// Text that grows: drawn once a frame, in blocks, so that a long answer stays quick.

import { make } from "./dom.js";

const BLOCK_SIGNS = 2000;

export class TextFlow {
  constructor() {
    this.node = make("div", { class: "words" });
    this.pending = "";
    this.isPlanned = false;
    this.block = null;
  }

  append(added) {
    this.pending += added;
    if (this.isPlanned) return;
    this.isPlanned = true;
    requestAnimationFrame(() => this.flush());
  }

  /** Draws what was appended; blocks end where lines do. */
  flush() {
    this.isPlanned = false;
    let rest = this.pending;
    this.pending = "";
    while (rest !== "") {
      const isFull = this.block !== null && this.block.length >= BLOCK_SIGNS;
      const end = isFull ? rest.indexOf("\n") : -1;
      const room = this.block === null ? BLOCK_SIGNS : BLOCK_SIGNS - this.block.length;
      if (this.block === null) this.begin();
      if (isFull && end >= 0) {
        this.block.appendData(rest.slice(0, end));
        rest = rest.slice(end + 1);
        this.begin();
      } else if (isFull || rest.length <= room) {
        this.block.appendData(rest);
        rest = "";
      } else {
        this.block.appendData(rest.slice(0, room));
        rest = rest.slice(room);
      }
    }
  }

  begin() {
    this.block = document.createTextNode("");
    this.node.append(make("div", { dir: "auto" }, this.block));
  }
}
