import type { Schemas } from "./api";

export interface ToolMargin {
  tool: string;
  jobs: number;
  credits: number;
  cost: number;
}

/** Margins by tool over all days and plans, the most expensive first. */
export function byTool(lines: readonly Schemas["MarginView"][]): ToolMargin[] {
  const sums = new Map<string, ToolMargin>();
  for (const { tool, jobs, credits, provider_cost: cost } of lines) {
    const sum = sums.get(tool) ?? { tool, jobs: 0, credits: 0, cost: 0 };
    sums.set(tool, { tool, jobs: sum.jobs + jobs, credits: sum.credits + credits, cost: sum.cost + cost });
  }
  return [...sums.values()].sort((a, b) => b.cost - a.cost);
}
