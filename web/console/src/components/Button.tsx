import type { ButtonHTMLAttributes } from "react";

export interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled" | "className"> {
  /** `solid` is for the one act that a page or dialog is about; `danger` for what cannot be undone. */
  look?: "quiet" | "solid" | "danger" | "plain";
  /** Under way, or not possible now. The button keeps the focus; a press does nothing. */
  isOff?: boolean;
}

export function Button({ look = "quiet", isOff = false, onClick, type = "button", ...rest }: ButtonProps) {
  return (
    <button
      {...rest}
      type={type}
      className={look === "quiet" ? "button" : `button ${look}`}
      aria-disabled={isOff || undefined}
      onClick={(event) => {
        if (isOff) event.preventDefault();
        else onClick?.(event);
      }}
    />
  );
}
