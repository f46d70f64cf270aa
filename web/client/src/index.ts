export { FichaError } from "./errors";
export { createFicha, type Ficha, type FichaOptions, isFichaError, type Session, type Subscription } from "./ficha";
export type { JobListener } from "./follow";
export type { JobHandle } from "./handle";
export type { Query, TokenSource } from "./http";
export {
  type Connection,
  type FinalState,
  type FollowedState,
  hasEnded,
  type JobState,
  type Running,
  type Uploading,
  type UploadProgress,
  type Waiting,
  type WaitState,
} from "./states";
export type { SubmitOptions } from "./submits";
export type { Times } from "./times";
export type {
  Account,
  Dated,
  Entry,
  FileInfo,
  Finish,
  Job,
  JobEvent,
  JobStatus,
  JobsQuery,
  JobText,
  LibraryItem,
  LibraryQuery,
  Page,
  PageQuery,
  Payload,
  Quote,
  Receipt,
  Tool,
  WaitReason,
  WorkRemoved,
} from "./types";
export type { UploadOptions } from "./uploads";
