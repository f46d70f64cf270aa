import { type ReactNode, useState } from "react";
import { useMayAct } from "../hooks/useSignedIn";
import { newKey } from "../services/new-key";
import { invalidate } from "../services/queries";
import { Button, type ButtonProps } from "./Button";
import { ConfirmDialog, type ConfirmDialogProps } from "./ConfirmDialog";
import { toast } from "./Toast";

export interface ActButtonProps extends Omit<ConfirmDialogProps, "isOpen" | "onConfirm" | "onClose" | "children"> {
  /** The button's word. */
  label: ReactNode;
  /** Names the button where the word alone does not: "Pause pool gpu". */
  spoken?: string;
  look?: ButtonProps["look"];
  /**
   * Does it, and gives the sentence to say afterwards. `key` is one idempotency key for each time the dialog opens: a
   * second press, or a try after a lost answer, does the same act and no other.
   */
  run: (reason: string, key: string) => Promise<string>;
  /** The nouns whose lists are asked again afterwards. */
  refresh: string[];
  /** Called when the dialog opens: fields among the children start anew. */
  onOpen?: () => void;
  children?: ReactNode;
}

/** A button that asks first. Those who may only look do not see it. */
export function ActButton({ label, spoken, look, run, refresh, onOpen, children, ...dialog }: ActButtonProps) {
  const [key, setKey] = useState<string>();
  if (!useMayAct()) return null;
  return (
    <>
      <Button
        look={look}
        aria-label={spoken}
        onClick={() => {
          onOpen?.();
          setKey(newKey());
        }}
      >
        {label}
      </Button>
      <ConfirmDialog
        {...dialog}
        isOpen={key !== undefined}
        onClose={() => setKey(undefined)}
        onConfirm={async (reason) => {
          toast.say(await run(reason, key ?? newKey()));
          void invalidate(...refresh);
        }}
      >
        {children}
      </ConfirmDialog>
    </>
  );
}
