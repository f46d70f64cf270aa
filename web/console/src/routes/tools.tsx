import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { brakeOf, ToolBrakes, ToolState } from "../components/Brakes";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Money } from "../components/Money";
import { Page } from "../components/Page";
import { useLive } from "../hooks/useLive";
import type { Schemas } from "../services/api";
import { formatCount, formatDuration } from "../services/format";
import { brakesQuery, toolsQuery } from "../services/lists";
import { searchText } from "../services/search-text";

export const Route = createLazyRoute("/tools")({ component: Tools });

type Tool = Schemas["ToolView"];
type Brake = Schemas["BrakeView"];

function Tools() {
  const tools = useLive(toolsQuery, 60_000);
  const brakes = useLive(brakesQuery);
  return (
    <Page
      title="Tools"
      lead="What can be submitted, at which price. Open one to try it."
      actions={<LiveNote at={tools.dataUpdatedAt} isFailing={tools.isError || brakes.isError} />}
    >
      <Loaded query={tools} what="the tools">
        {({ items }) => (
          <Loaded query={brakes} what="what is stopped">
            {(stopped) => <Table tools={items} brakes={stopped.items} />}
          </Loaded>
        )}
      </Loaded>
    </Page>
  );
}

function Table({ tools, brakes }: { tools: Tool[]; brakes: Brake[] }) {
  const navigate = useNavigate();
  const columns = useMemo(() => columnsWith(brakes), [brakes]);
  return (
    <DataTable
      label="Tools"
      columns={columns}
      rows={tools}
      rowKey={(tool) => tool.name}
      isMarked={(tool) => brakeOf(brakes, "tool", tool.name) !== undefined}
      onOpen={(tool) => void navigate({ to: "/tools/$tool", params: { tool: tool.name } })}
      empty={
        <Empty title="The application declares no tools.">
          <p>
            A function with <code>@app.tool()</code> is one.
          </p>
        </Empty>
      }
    />
  );
}

const columnsWith = (brakes: Brake[]): Column<Tool>[] => [
  {
    id: "name",
    header: "Tool",
    onPhone: "title",
    cell: (tool) => (
      <Link to="/tools/$tool" params={{ tool: tool.name }}>
        {tool.name}
      </Link>
    ),
    sortBy: (tool) => tool.name,
  },
  { id: "state", header: "State", cell: (tool) => <ToolState tool={tool} brakes={brakes} /> },
  {
    id: "about",
    header: "What it does",
    width: "grow",
    cell: (tool) => <span title={tool.description ?? undefined}>{tool.description ?? "–"}</span>,
  },
  {
    id: "price",
    header: "Price",
    align: "right",
    cell: (tool) => (tool.price === null ? "by payload" : <Money credits={tool.price} />),
    sortBy: (tool) => tool.price,
  },
  { id: "pool", header: "Pool", cell: (tool) => <Link to="/pools">{tool.pool}</Link>, sortBy: (tool) => tool.pool },
  { id: "attempts", header: "Attempts", align: "right", cell: (tool) => formatCount(tool.attempts) },
  { id: "timeout", header: "Time-out", align: "right", cell: (tool) => formatDuration(tool.timeout_s) },
  { id: "plans", header: "Plans", cell: (tool) => tool.plans?.join(", ") ?? "all" },
  { id: "audience", header: "For", cell: (tool) => (tool.audience === "service" ? "the application" : "users") },
  {
    id: "jobs",
    header: "Jobs",
    align: "right",
    cell: (tool) => (
      <Link to="/jobs" search={{ search: searchText({ tool: tool.name }) }} aria-label={`Jobs of ${tool.name}`}>
        jobs
      </Link>
    ),
  },
  { id: "acts", header: "", align: "right", cell: (tool) => <ToolBrakes tool={tool.name} brakes={brakes} /> },
];
