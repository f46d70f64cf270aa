import { Link } from "@tanstack/react-router";
import { Page } from "./Page";

export function Missing() {
  return (
    <Page title="No such page">
      <p>
        This address leads nowhere. <Link to="/">Go to the overview</Link>.
      </p>
    </Page>
  );
}
