import type { Tool } from "@ficha/client";
import { useEffect, useRef } from "react";
import { cardPrice } from "../services/tools";
import { useWords } from "../words";
import { Icon } from "./Icon";
import styles from "./ToolRail.module.css";

interface Props {
  tools: Tool[];
  chosen: string;
  onChoose: (tool: string) => void;
}

/** The tools, each with its price. */
export function ToolRail({ tools, chosen, onChoose }: Props) {
  const words = useWords();
  const list = useRef<HTMLUListElement>(null);
  // On a phone the list scrolls sideways: the chosen tool is brought into view, and nothing else moves.
  useEffect(() => {
    const shown = list.current?.querySelector<HTMLElement>(`[data-tool="${CSS.escape(chosen)}"]`);
    if (list.current && shown) list.current.scrollLeft = shown.offsetLeft - 16;
  }, [chosen]);
  return (
    <nav className={styles.rail} aria-label={words.tools}>
      <ul className={styles.list} ref={list}>
        {tools.map((tool) => {
          const [title, about] = words.toolNames[tool.name] ?? [tool.name, tool.description ?? ""];
          const price = cardPrice(tool);
          return (
            <li key={tool.name} data-tool={tool.name}>
              <button
                type="button"
                className={styles.tool}
                aria-current={tool.name === chosen ? "true" : undefined}
                onClick={() => onChoose(tool.name)}
              >
                <span className={styles.icon}>
                  <Icon name={tool.name} />
                </span>
                <span className={styles.text}>
                  <span className={styles.title}>{title}</span>
                  <span className={styles.about}>{about}</span>
                </span>
                {price && (
                  <span className={styles.price}>
                    <span className="hidden">
                      {price.isLeast ? words.from(words.credits(price.cost)) : words.credits(price.cost)}
                    </span>
                    <span aria-hidden="true">
                      {price.cost}
                      {price.isLeast ? "+" : ""}
                    </span>
                  </span>
                )}
              </button>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}
