// Browsers start no worker from a file: where the site is opened from a disk, its search runs in a frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inside.document.createElement("script");
      this.loaded = new Promise((done) => { script.onload = done; });
      script.src = address;
      this.inside.document.head.append(script);
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}

// The theme's search is a dialog without a name, which screen readers need.
addEventListener("DOMContentLoaded", () => document.querySelector(".md-search").setAttribute("aria-label", "Search"));
