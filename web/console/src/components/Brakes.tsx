// What an operator has stopped of a tool or a pool, and the buttons that stop and start it.
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { api, type Schemas } from "../services/api";
import { ActButton } from "./ActButton";
import styles from "./Brakes.module.css";
import { Field } from "./Field";
import { StateBadge } from "./StateBadge";
import { TimeAgo } from "./TimeAgo";

type Brake = Schemas["BrakeView"];
type Kind = Brake["kind"];

/** The brake on a tool or a pool, if something of it is stopped. */
export function brakeOf(brakes: readonly Brake[], kind: Kind, name: string): Brake | undefined {
  return brakes.find((brake) => brake.kind === kind && brake.name === name);
}

interface BrakeStateProps {
  brake: Brake | undefined;
  isPaused: boolean;
  /** What else is stopped: tools of a pool, the pool of a tool. */
  children?: ReactNode;
}

/** Open, or what is stopped, with the words that those who submit read. The audit log has who did it. */
export function BrakeState({ brake, isPaused, children }: BrakeStateProps) {
  const closed = brake?.closed ?? null;
  return (
    <div className={styles.state}>
      <span className={styles.badges}>
        {isPaused && <StateBadge state="paused" />}
        {closed !== null && <StateBadge state="closed" />}
        {!isPaused && closed === null && <StateBadge state="open" />}
      </span>
      {closed !== null && <span className={styles.words}>“{closed}”</span>}
      {brake && (
        <Link to="/audit" search={{ target: `${brake.kind} ${brake.name}` }}>
          changed <TimeAgo at={brake.since} />
        </Link>
      )}
      {children}
    </div>
  );
}

/** Of a tool: its own brake, and the closed pool that refuses its submits too. */
export function ToolState({ tool, brakes }: { tool: Schemas["ToolView"]; brakes: readonly Brake[] }) {
  const brake = brakeOf(brakes, "tool", tool.name);
  const pool = brakeOf(brakes, "pool", tool.pool);
  return (
    <BrakeState brake={brake} isPaused={brake?.paused ?? false}>
      {pool && pool.closed !== null && (
        <span className={styles.words}>
          <Link to="/pools">Pool {tool.pool}</Link> is closed: “{pool.closed}”
        </span>
      )}
    </BrakeState>
  );
}

export function ToolBrakes({ tool, brakes }: { tool: string; brakes: readonly Brake[] }) {
  const brake = brakeOf(brakes, "tool", tool);
  return (
    <>
      {brake?.paused ? <ResumeTool tool={tool} /> : <PauseTool tool={tool} />}
      <Submits kind="tool" name={tool} brake={brake} />
    </>
  );
}

/** Closes a tool or a pool to submits, or opens it. */
export function Submits({ kind, name, brake }: { kind: Kind; name: string; brake: Brake | undefined }) {
  return brake && brake.closed !== null ? <Open kind={kind} name={name} /> : <Close kind={kind} name={name} />;
}

const TOUCHED = ["brakes", "pools", "tools", "jobs", "overview", "audit"];

function PauseTool({ tool }: { tool: string }) {
  return (
    <ActButton
      label="Pause"
      spoken={`Pause tool ${tool}`}
      title={`Pause tool ${tool}?`}
      confirm={`Pause ${tool}`}
      isDangerous
      refresh={TOUCHED}
      run={async () => {
        await api.post("/api/admin/tools/{tool}/pause", undefined, { path: { tool } });
        return `Tool ${tool} is paused.`;
      }}
    >
      <p>No job of this tool starts. What runs goes on, waiting jobs keep their order, and other tools go on.</p>
      <p>Submits are still accepted and charged. To refuse them, close the tool too.</p>
    </ActButton>
  );
}

function ResumeTool({ tool }: { tool: string }) {
  return (
    <ActButton
      label="Resume"
      spoken={`Resume tool ${tool}`}
      title={`Resume tool ${tool}?`}
      confirm={`Resume ${tool}`}
      refresh={TOUCHED}
      run={async () => {
        await api.post("/api/admin/tools/{tool}/resume", undefined, { path: { tool } });
        return `Tool ${tool} starts jobs again.`;
      }}
    >
      <p>Its waiting jobs stand where they stood.</p>
    </ActButton>
  );
}

function Close({ kind, name }: { kind: Kind; name: string }) {
  const [sentence, setSentence] = useState("");
  const reason = sentence.trim();
  return (
    <ActButton
      label="Close"
      spoken={`Close ${kind} ${name}`}
      title={`Close ${kind} ${name} to submits?`}
      confirm={`Close ${name}`}
      isDangerous
      problem={reason === "" ? "Write the sentence that those who submit read." : undefined}
      refresh={TOUCHED}
      onOpen={() => setSentence("")}
      run={async () => {
        if (kind === "tool") await api.post("/api/admin/tools/{tool}/close", { reason }, { path: { tool: name } });
        else await api.post("/api/admin/pools/{pool}/close", { reason }, { path: { pool: name } });
        return `Submits to the ${kind} ${name} are refused now.`;
      }}
    >
      <p>
        {kind === "tool" ? "Submits" : "Submits to all its tools"} are refused with your sentence, and nothing is
        charged. Jobs that exist go on.
      </p>
      <Field label="Sentence for those who submit" isRequired help="Your users may read it. Kept in the audit log.">
        {(parts) => (
          <input
            {...parts}
            className="field"
            value={sentence}
            maxLength={500}
            placeholder="We are mending it, until noon."
            onChange={(event) => setSentence(event.target.value)}
          />
        )}
      </Field>
    </ActButton>
  );
}

function Open({ kind, name }: { kind: Kind; name: string }) {
  return (
    <ActButton
      label="Open"
      spoken={`Open ${kind} ${name}`}
      title={`Open ${kind} ${name} to submits?`}
      confirm={`Open ${name}`}
      refresh={TOUCHED}
      run={async () => {
        if (kind === "tool") await api.post("/api/admin/tools/{tool}/open", undefined, { path: { tool: name } });
        else await api.post("/api/admin/pools/{pool}/open", undefined, { path: { pool: name } });
        return `The ${kind} ${name} accepts submits again.`;
      }}
    />
  );
}
