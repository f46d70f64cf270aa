import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./styles/tokens.css";
import "./styles/base.css";
import { applyTheme } from "./hooks/useTheme";
import { router } from "./router";
import { onSignedOut } from "./services/api";
import { client, signInQuery } from "./services/queries";

applyTheme();

onSignedOut(() => {
  if (router.state.location.pathname === "/sign-in") return;
  client.setQueryData(signInQuery.queryKey, null);
  void router.navigate({ to: "/sign-in", search: { back: router.state.location.href } });
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
