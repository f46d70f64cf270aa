import {
  type ColumnDef,
  createSortedRowModel,
  rowSortingFeature,
  sortFn_alphanumeric,
  sortFn_basic,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  type MouseEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import styles from "./DataTable.module.css";
import { Icon } from "./Icon";

export interface Column<Row> {
  id: string;
  /** Empty for a column of buttons. */
  header: string;
  /** What a cell shows. Put a link into one column: a middle click must work. */
  cell: (row: Row) => ReactNode;
  /** Numbers stand right. */
  align?: "left" | "right";
  /** A CSS width; without one the column takes what it needs. `grow` takes what is left and cuts off long text. */
  width?: string | "grow";
  /** Makes the column sortable in the browser. Only for lists that are whole: a page of a longer list sorts wrongly. */
  sortBy?: (row: Row) => string | number | null;
  /** On phones, rows are cards: a title, then "header value" lines. `title` marks the card's title, `hidden` leaves it out. */
  onPhone?: "title" | "hidden";
}

export interface DataTableProps<Row> {
  /** What the table lists, for screen readers: "Workers". */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** A click on a row, or Enter. */
  onOpen?: (row: Row) => void;
  /** Keys of the chosen rows; with `onSelect` each row has a checkbox. */
  selected?: ReadonlySet<string>;
  onSelect?: (keys: Set<string>) => void;
  /** Stands in place of the rows when there are none. */
  empty?: ReactNode;
  /** A row that wants attention is tinted. */
  isMarked?: (row: Row) => boolean;
}

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { alphanumeric: sortFn_alphanumeric, basic: sortFn_basic },
});

const VIRTUAL_FROM = 120;
const ROW_PX = 32;
const NONE: ReadonlySet<string> = new Set();

/**
 * A table of 32 px rows with a head that stays; on phones each row is a card. More than 120 rows are drawn only where
 * they can be seen. Arrows, Home and End move between rows, Enter opens, Space chooses; Tab leaves the table.
 */
export function DataTable<Row extends object>(props: DataTableProps<Row>) {
  const { columns, rows, rowKey, onOpen, onSelect, selected = NONE } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(0);
  const isWide = useIsWide(scroller, rows.length > 0);
  const defs = useMemo(
    () =>
      columns.map(
        (column): ColumnDef<typeof features, Row> => ({
          id: column.id,
          accessorFn: (row) => column.sortBy?.(row) ?? undefined,
          enableSorting: column.sortBy !== undefined,
          sortUndefined: "last",
        }),
      ),
    [columns],
  );
  const table = useTable({
    features,
    columns: defs,
    data: rows as Row[],
    getRowId: rowKey,
  });
  const sorted = table.getRowModel().rows;
  const isVirtual = sorted.length > VIRTUAL_FROM;
  const virtual = useVirtualizer({
    count: isVirtual ? sorted.length : 0,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  });
  if (rows.length === 0 && props.empty !== undefined) return <>{props.empty}</>;

  const items = virtual.getVirtualItems();
  const indexes = isVirtual ? items.map((item) => item.index) : sorted.map((_row, index) => index);
  const above = isVirtual ? (items[0]?.start ?? 0) : 0;
  const below = isVirtual ? virtual.getTotalSize() - (items.at(-1)?.end ?? 0) : 0;
  const active = Math.min(at, sorted.length - 1);
  const span = columns.length + (onSelect ? 1 : 0);

  function focusRow(index: number) {
    const next = Math.max(0, Math.min(sorted.length - 1, index));
    setAt(next);
    if (isVirtual) virtual.scrollToIndex(next);
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`tr[data-index="${next}"]`)?.focus());
  }

  function toggle(key: string) {
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect?.(next);
  }

  function onKeyDown(event: KeyboardEvent<HTMLTableRowElement>, index: number, row: Row) {
    if (event.target !== event.currentTarget || event.altKey || event.ctrlKey || event.metaKey) return;
    const step: Record<string, number> = {
      ArrowDown: index + 1,
      ArrowUp: index - 1,
      Home: 0,
      End: sorted.length - 1,
      PageDown: index + 10,
      PageUp: index - 10,
    };
    const to = step[event.key];
    if (to !== undefined) focusRow(to);
    else if (event.key === "Enter" && onOpen) onOpen(row);
    else if (event.key === " " && onSelect) toggle(rowKey(row));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function onClick(event: MouseEvent<HTMLTableRowElement>, row: Row) {
    if (!onOpen || (event.target as HTMLElement).closest("a, button, input, label, summary, select, dialog")) return;
    if (window.getSelection()?.toString()) return; // the reader marks text
    onOpen(row);
  }

  return (
    <div ref={scroller} className={`${styles.scroller} ${isVirtual ? styles.tall : ""} ${isWide ? styles.wide : ""}`}>
      <table className={styles.table} aria-label={props.label} aria-rowcount={sorted.length + 1} role="table">
        <thead role="rowgroup">
          <tr role="row" aria-rowindex={1}>
            {onSelect && (
              <th role="columnheader" scope="col" className={styles.choose}>
                <label>
                  <input
                    type="checkbox"
                    aria-label="Choose all rows of this page"
                    checked={rows.length > 0 && rows.every((row) => selected.has(rowKey(row)))}
                    onChange={(event) => onSelect(new Set(event.target.checked ? rows.map(rowKey) : []))}
                  />
                  <span aria-hidden="true">Choose all</span>
                </label>
              </th>
            )}
            {columns.map((column) => {
              const sorts = table.getColumn(column.id);
              const order = sorts?.getIsSorted() ?? false;
              return (
                <th
                  key={column.id}
                  role="columnheader"
                  scope="col"
                  className={looksOf(column)}
                  style={column.width && column.width !== "grow" ? { width: column.width } : undefined}
                  aria-sort={order === "asc" ? "ascending" : order === "desc" ? "descending" : undefined}
                >
                  {column.sortBy ? (
                    <button type="button" className={styles.sort} onClick={sorts?.getToggleSortingHandler()}>
                      {column.header}
                      {order && <Icon name={order === "asc" ? "up" : "down"} size={12} />}
                    </button>
                  ) : column.header === "" ? (
                    <span className="spoken">Acts</span>
                  ) : (
                    column.header
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {above > 0 && <Space height={above} span={span} />}
          {indexes.map((index) => {
            const row = sorted[index]?.original;
            if (row === undefined) return null;
            const key = rowKey(row);
            const isChosen = selected.has(key);
            return (
              <tr
                key={key}
                ref={isVirtual ? virtual.measureElement : undefined}
                data-index={index}
                role="row"
                aria-rowindex={index + 2}
                aria-selected={onSelect ? isChosen : undefined}
                tabIndex={index === active || (isVirtual && !indexes.includes(active) && index === indexes[0]) ? 0 : -1}
                className={`${onOpen ? styles.opens : ""} ${isChosen ? styles.chosen : ""} ${props.isMarked?.(row) ? styles.marked : ""}`}
                onKeyDown={(event) => onKeyDown(event, index, row)}
                onFocus={() => setAt(index)}
                onClick={(event) => onClick(event, row)}
              >
                {onSelect && (
                  <td role="cell" className={styles.choose}>
                    <input
                      type="checkbox"
                      aria-label={`Choose ${key}`}
                      checked={isChosen}
                      onChange={() => toggle(key)}
                    />
                  </td>
                )}
                {columns.map((column) => (
                  <td
                    key={column.id}
                    role="cell"
                    data-label={column.header}
                    data-phone={column.onPhone}
                    className={looksOf(column)}
                  >
                    <div className={styles.value}>{column.cell(row)}</div>
                  </td>
                ))}
              </tr>
            );
          })}
          {below > 0 && <Space height={below} span={span} />}
        </tbody>
      </table>
    </div>
  );
}

/** Whether the columns are wider than their place. Only then the table scrolls sideways: its head cannot stay in sight
 * while the page scrolls if the table is a scrolling box of its own. */
function useIsWide(scroller: RefObject<HTMLDivElement | null>, hasRows: boolean): boolean {
  const [isWide, setWide] = useState(false);
  useEffect(() => {
    const box = hasRows ? scroller.current : null;
    const table = box?.querySelector("table");
    if (!box || !table || typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(() => setWide(table.offsetWidth > box.clientWidth + 1));
    observer.observe(box);
    observer.observe(table);
    return () => observer.disconnect();
  }, [scroller, hasRows]);
  return isWide;
}

function looksOf<Row>(column: Column<Row>): string {
  const looks = [
    column.align === "right" && styles.right,
    column.width === "grow" && styles.grow,
    column.header === "" && styles.acts,
  ];
  return looks.filter(Boolean).join(" ");
}

/** Stands for the rows that are not drawn. */
function Space({ height, span }: { height: number; span: number }) {
  return (
    <tr role="presentation" aria-hidden="true" className={styles.space}>
      <td colSpan={span} style={{ height }} />
    </tr>
  );
}
