/**
 * Copies a text. Browsers offer `navigator.clipboard` only over HTTPS and on localhost; a console on plain HTTP takes the
 * older way: a hidden text field, selected and copied.
 */
export async function copyText(text: string): Promise<boolean> {
  if (window.isSecureContext && navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Refused, for example in a frame without the right: the older way may still work.
    }
  }
  const before = document.activeElement;
  const host = before?.closest("dialog") ?? document.body; // outside an open modal dialog nothing can be selected
  const field = document.createElement("textarea");
  field.value = text;
  field.readOnly = true;
  field.style.position = "fixed";
  field.style.opacity = "0";
  host.append(field);
  field.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    field.remove();
    if (before instanceof HTMLElement) before.focus();
  }
}
