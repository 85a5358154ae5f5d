// Elements. Texts become text nodes and attribute values, never markup.

const SVG = "http://www.w3.org/2000/svg";

export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// Replaces the content. The focus returns to the same element, and open parts stay open.
export function replace(parent, ...children) {
  const held = parent.contains(document.activeElement) ? placeOf(document.activeElement) : null;
  const open = [...parent.querySelectorAll("details[open] > summary")].map(placeOf);
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  for (const each of parent.querySelectorAll("summary")) if (open.includes(placeOf(each))) each.parentElement.open = true;
  if (held !== null) focusOn(parent, held);
}

// Focuses an element, or the element that replaced it.
export function focusAgain(element) {
  if (element.isConnected) element.focus();
  else focusOn(document, placeOf(element));
}

function focusOn(parent, place) {
  const all = [...parent.querySelectorAll("a, button, summary, [tabindex]")];
  all.find((element) => placeOf(element) === place)?.focus({ preventScroll: true });
}

function placeOf(element) {
  const name = element.getAttribute("aria-label") ?? element.getAttribute("href") ?? element.textContent;
  return `${element.localName} ${name}`;
}
