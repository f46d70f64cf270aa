// The names of what pages show most. The shapes are those of the server's document.
import type { components } from "../../../client/src/openapi";

type Schemas = components["schemas"];

export type SignedIn = Schemas["SignedIn"];

export type Overview = Schemas["Overview"];
export type Series = Schemas["Series"];
export type Alert = Schemas["Alert"];
export type Range = Overview["range"];
export type JobSearch = Schemas["JobSearch"];
export type JobCount = Schemas["JobCount"];
export type JobPage = Schemas["JobPage"];
export type JobAct = JobPage["acts"][number];
export type DeadGroup = Schemas["DeadGroup"];
export type SearchWords = Schemas["SearchWords"];

export type BulkAct = Schemas["BulkActView"];
export type BulkVerb = BulkAct["act"];
