import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { examplePayload, shellQuoted } from "../services/example-payload";
import { toolsQuery } from "../services/lists";
import type { JsonSchema } from "../services/schema-form";
import { CopyText } from "./CopyText";
import styles from "./FirstRun.module.css";

/** What a new installation shows in place of empty charts: the three lines that submit a job. */
export function FirstRun() {
  const tools = useQuery(toolsQuery).data?.items ?? [];
  const [example] = tools.flatMap(({ name, schema }) => {
    const payload = examplePayload(schema as JsonSchema);
    return payload === null ? [] : [{ tool: name, payload }];
  });
  const body = example ?? { tool: tools[0]?.name ?? "hello", payload: {} };
  const lines = [
    `curl -X POST ${window.location.origin}/api/jobs \\`,
    `  -H "Authorization: Bearer $FICHA_KEY" -H "Content-Type: application/json" \\`,
    `  -d ${shellQuoted(JSON.stringify(body))}`,
  ].join("\n");
  return (
    <section className={`panel ${styles.first}`} aria-labelledby="first-run">
      <h2 id="first-run">No job has been submitted yet</h2>
      <p>
        Submit the first one. The key is the one of an account (<code>ficha apikey create me --account NAME</code>;{" "}
        <code>ficha dev</code> prints one), and the payload is what the tool takes.
      </p>
      <div className={styles.code}>
        <pre>{lines}</pre>
        <CopyText text={lines} shown="" what="these lines" />
      </div>
      <p>
        Or <Link to="/tools">try a tool with a form</Link>. Once jobs run, this page shows who waits, who works and what
        it costs.
      </p>
    </section>
  );
}
