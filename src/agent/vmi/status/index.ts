/**
 * Owns: the VMI's status as a pure function of what was observed, decided and done.
 * Must not know: how it is written, the logger, the clock (the observation carries `now`).
 */
export { clip } from './bounds.ts';
export { lackingCommands } from './guest-agent-conditions.ts';
export { changedParts, statusParts } from './parts.ts';
export { type Projection, project, type Reconciled } from './project.ts';
export { semanticEqual } from './semantic-equal.ts';
