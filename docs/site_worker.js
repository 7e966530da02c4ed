/* Browsers start no workers from a folder (file://), and the search is one: it runs in a hidden frame there. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.inside = frame.contentWindow;
      const load = (source) => new Promise((loaded, failed) => {
        const script = this.inside.document.createElement("script");
        Object.assign(script, { src: source, onload: loaded, onerror: failed });
        this.inside.document.body.append(script);
      });
      this.inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      load(new URL(url, location)).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (this.ready) this.inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
