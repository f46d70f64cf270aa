import { Component, type ReactNode } from "react";
import { ErrorPanel } from "./ErrorPanel";

interface GuardedProps {
  /** What the panel shows: "the chart of waiting times". */
  what: string;
  children: ReactNode;
}

/** A panel that cannot be drawn says so in its place and leaves the rest of the page as it is. */
export class Guarded extends Component<GuardedProps, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <ErrorPanel error={this.state.error} what={this.props.what} onRetry={() => this.setState({ error: undefined })} />
    );
  }
}
