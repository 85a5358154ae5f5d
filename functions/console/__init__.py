"""The operators' console, a static page of the operators' interface. Start with `static/main.js`."""
