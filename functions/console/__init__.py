"""The operators' console, a static page. Start with `static/main.js`."""
