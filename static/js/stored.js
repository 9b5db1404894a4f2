/** What this browser remembers. Storage may be full or forbidden; then it forgets, and nothing else breaks. */

export function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function write(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // not remembered
  }
}

export function forget(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    // nothing was kept
  }
}
