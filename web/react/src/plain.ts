// What a page without React can use: the words of every state, and what there is to look at in a result.
export { type Around, type Described, describe, type Tone } from "./describe";
export { type Shown, shownIn } from "./pictures";
export { formatElapsed, formatRange, roundEstimate } from "./rounding";
export { visitSession } from "./session";
export { attend } from "./stores/visit";
export { type Locale, localeOf, WORDS, type Words } from "./words";
