/**
 * Owns: the web page with a node's virtual machines (list, serial console, screen, decisions) and the server that only its
 * token of this start, its own origin and its own host name reach. `page/` runs in the browser and is built by scripts/bundle.mjs.
 * Must not know: where VMs come from, who serves their console; both are ports.
 */
export { type ConsoleNotice, type ConsoleRole, parseNotice } from './console-notice.ts';
export { durationText } from './duration.ts';
export { fileSize } from './file-size.ts';
export { migrationText, movedText } from './migration-text.ts';
export { nextTryText } from './next-try.ts';
export { nodeRow } from './node-row.ts';
export type {
  ExplainAnswer,
  KubeAnswer,
  KubePassage,
  KubeRequest,
  VmActions,
  VmApi,
  VmFeed,
  WebBackend,
  WebImages,
  WebNodes,
} from './ports.ts';
export type { ImageRow, NodeRow, VmRow } from './rows.ts';
export { WebServer, type WebServerOptions } from './server.ts';
export { vmRow } from './vm-row.ts';
export { waitingState } from './waiting-state.ts';
export { type WaterfallBar, waterfallOf } from './waterfall.ts';
