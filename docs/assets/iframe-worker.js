// Browsers start no web workers on pages that are opened as files. Run the search worker in a hidden frame there.
// Material loads this script in place of the package iframe-worker, which it would fetch from a CDN.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.onload = () => resolve(inside);
        script.onerror = reject;
        script.src = url;
        inside.document.body.appendChild(script);
      });
    }

    postMessage(data) {
      this.inside.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {}
  };
}
