import { useQuery } from "@tanstack/react-query";
import { createLazyRoute, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { ActButton } from "../components/ActButton";
import { Bar } from "../components/Bar";
import { BrakeState, brakeOf, Submits } from "../components/Brakes";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { Field } from "../components/Field";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Page } from "../components/Page";
import { useLive } from "../hooks/useLive";
import { api, type Schemas } from "../services/api";
import { formatCount, plural } from "../services/format";
import { brakesQuery, poolsQuery, toolsQuery } from "../services/lists";
import { searchText } from "../services/search-text";

export const Route = createLazyRoute("/pools")({ component: Pools });

type Pool = Schemas["PoolView"];
type Brake = Schemas["BrakeView"];

function Pools() {
  const pools = useLive(poolsQuery);
  const brakes = useLive(brakesQuery);
  return (
    <Page
      title="Pools"
      lead="Who works: how many jobs run against the slots of each pool, and how many wait for one."
      actions={<LiveNote at={pools.dataUpdatedAt} isFailing={pools.isError || brakes.isError} />}
    >
      <Loaded query={pools} what="the pools">
        {({ items }) => (
          <Loaded query={brakes} what="what is stopped">
            {(stopped) => <Table pools={items} brakes={stopped.items} />}
          </Loaded>
        )}
      </Loaded>
    </Page>
  );
}

function Table({ pools, brakes }: { pools: Pool[]; brakes: Brake[] }) {
  // Pools and their brakes are shown also while it is not known which tools are whose.
  const tools = useQuery(toolsQuery).data?.items;
  const columns = useMemo(() => columnsWith(brakes, tools ?? []), [brakes, tools]);
  return (
    <DataTable
      label="Pools"
      columns={columns}
      rows={pools}
      rowKey={(pool) => pool.name}
      isMarked={(pool) => pool.paused || brakeOf(brakes, "pool", pool.name) !== undefined}
      empty={<Empty title="No pools are declared." />}
    />
  );
}

function JobCount({ pool, states, count }: { pool: Pool; states: string[]; count: number }) {
  return (
    <Link to="/jobs" search={{ search: searchText({ pool: pool.name, state: states }) }}>
      {formatCount(count)}
    </Link>
  );
}

const columnsWith = (brakes: Brake[], tools: Schemas["ToolView"][]): Column<Pool>[] => [
  {
    id: "name",
    header: "Pool",
    onPhone: "title",
    cell: (pool) => (
      <Link to="/jobs" search={{ search: searchText({ pool: pool.name }) }}>
        {pool.name}
      </Link>
    ),
    sortBy: (pool) => pool.name,
  },
  {
    id: "state",
    header: "State",
    cell: (pool) => (
      <BrakeState brake={brakeOf(brakes, "pool", pool.name)} isPaused={pool.paused}>
        {tools
          .filter((tool) => tool.pool === pool.name && brakeOf(brakes, "tool", tool.name)?.paused)
          .map(({ name }) => (
            <Link key={name} to="/tools/$tool" params={{ tool: name }}>
              Tool {name} is paused
            </Link>
          ))}
      </BrakeState>
    ),
  },
  {
    id: "busy",
    header: "Running",
    align: "right",
    cell: (pool) => <JobCount pool={pool} states={["starting", "running"]} count={pool.busy} />,
    sortBy: (pool) => pool.busy,
  },
  {
    id: "slots",
    header: "Slots",
    align: "right",
    cell: (pool) => (pool.slots === null ? "no limit" : formatCount(pool.slots)),
    sortBy: (pool) => pool.slots,
  },
  {
    id: "bar",
    header: "Use",
    width: "grow",
    cell: (pool) =>
      pool.slots === null ? (
        <span className="muted">no limit</span>
      ) : (
        <Bar
          label={`Slots of ${pool.name} in use`}
          parts={[{ label: "busy", value: pool.busy, hue: "running" }]}
          total={pool.slots}
        />
      ),
  },
  {
    id: "ready",
    header: "Ready",
    align: "right",
    cell: (pool) => <JobCount pool={pool} states={["queued"]} count={pool.ready} />,
    sortBy: (pool) => pool.ready,
  },
  {
    id: "parked",
    header: "Parked",
    align: "right",
    cell: (pool) => <JobCount pool={pool} states={["queued"]} count={pool.parked} />,
    sortBy: (pool) => pool.parked,
  },
  {
    id: "acts",
    header: "",
    align: "right",
    cell: (pool) => (
      <>
        {pool.paused ? <Resume pool={pool} /> : <Pause pool={pool} />}
        <Submits kind="pool" name={pool.name} brake={brakeOf(brakes, "pool", pool.name)} />
        <Resize pool={pool} />
      </>
    ),
  },
];

function Pause({ pool }: { pool: Pool }) {
  return (
    <ActButton
      label="Pause"
      spoken={`Pause pool ${pool.name}`}
      title={`Pause pool ${pool.name}?`}
      confirm={`Pause ${pool.name}`}
      count={{ number: pool.ready, one: "job is ready and will wait", many: "jobs are ready and will wait" }}
      isDangerous
      refresh={["pools", "overview"]}
      run={async () => {
        await api.post("/api/admin/pools/{pool}/pause", undefined, { path: { pool: pool.name } });
        return `Pool ${pool.name} is paused.`;
      }}
    >
      <p>Nothing new starts in this pool. What runs goes on, and waiting jobs keep their places.</p>
    </ActButton>
  );
}

function Resume({ pool }: { pool: Pool }) {
  return (
    <ActButton
      label="Resume"
      spoken={`Resume pool ${pool.name}`}
      title={`Resume pool ${pool.name}?`}
      confirm={`Resume ${pool.name}`}
      count={{ number: pool.ready, one: "job is ready to start", many: "jobs are ready to start" }}
      refresh={["pools", "overview"]}
      run={async () => {
        await api.post("/api/admin/pools/{pool}/resume", undefined, { path: { pool: pool.name } });
        return `Pool ${pool.name} starts jobs again.`;
      }}
    />
  );
}

function Resize({ pool }: { pool: Pool }) {
  const [slots, setSlots] = useState("");
  const number = slots.trim() === "" ? null : Number(slots);
  const problem =
    number !== null && !(Number.isInteger(number) && number >= 1) ? "Slots are a whole number from 1 up." : undefined;
  return (
    <ActButton
      label="Resize"
      spoken={`Resize pool ${pool.name}`}
      title={`Change the slots of pool ${pool.name}?`}
      confirm={number === null ? "Use the declared number" : `Set ${plural(number, "slot")}`}
      problem={problem}
      refresh={["pools", "overview"]}
      onOpen={() => setSlots(pool.slots === null ? "" : String(pool.slots))}
      run={async () => {
        const after = await api.post(
          "/api/admin/pools/{pool}/resize",
          { slots: number },
          { path: { pool: pool.name } },
        );
        return `Pool ${pool.name} has ${after.slots === null ? "no limit" : plural(after.slots, "slot")} now.`;
      }}
    >
      <Field label="Slots" help="On all machines together. Empty returns to the number that the application declares.">
        {(parts) => (
          <input
            {...parts}
            className="field"
            inputMode="numeric"
            value={slots}
            onChange={(event) => setSlots(event.target.value)}
          />
        )}
      </Field>
      <p>With fewer slots, what runs goes on; new jobs start once enough have ended.</p>
    </ActButton>
  );
}
