import { useBalance, useGenerationQueue, useQueueSessionCleanup } from "@ficha/react";
import { useState } from "react";
import { useSession } from "../hooks/useSession";
import type { Demo, Person } from "../services/door";
import { Create } from "./Create";
import { DemoDrawer } from "./DemoDrawer";
import { Library } from "./Library";
import { TopBar, type View } from "./TopBar";
import { TopUp } from "./TopUp";

interface Props {
  demo: Demo;
  person: Person;
  onLeave: () => void;
}

/** The studio of one account: making pictures, and what was made. */
export function Workspace({ demo, person, onLeave }: Props) {
  const [view, setView] = useState<View>("create");
  const [panel, setPanel] = useState<"top-up" | "demo" | null>(null);
  const { plan } = useBalance();
  const session = useSession(person.account);
  // Here, and not in the view: a job goes on while its owner looks at the library.
  const queue = useGenerationQueue({ session });
  useQueueSessionCleanup(session);
  return (
    <>
      <TopBar
        account={person.account}
        plan={plan ?? person.plan}
        view={view}
        onView={setView}
        onTopUp={() => setPanel("top-up")}
        onDemo={() => setPanel("demo")}
        onLeave={onLeave}
      />
      {view === "library" ? (
        <Library onCreate={() => setView("create")} />
      ) : (
        <Create demo={demo} queue={queue} session={session} onTopUp={() => setPanel("top-up")} />
      )}
      {panel === "top-up" && <TopUp demo={demo} onClose={() => setPanel(null)} />}
      {panel === "demo" && <DemoDrawer isSimulated={demo.is_simulated} onClose={() => setPanel(null)} />}
    </>
  );
}
