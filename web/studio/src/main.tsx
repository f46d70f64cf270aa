import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "@ficha/react/style.css";
import "./styles/tokens.css";
import "./styles/base.css";
import { App } from "./App";

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
