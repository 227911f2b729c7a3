/**
 * Owns: what agent and controller both serve on `--port`: an HTTPS server that follows its certificates, health, and the text of
 * metrics with those that every program has (requests to the API server, queues, process).
 * Must not know: VMIs, decisions, what else a program counts, who scrapes.
 */
export { type Family, head, joined, type Label, labelText, sampleLine } from './exposition.ts';
export { Health } from './health.ts';
export { addProcessMetrics } from './process-metrics.ts';
export { type QueueFigures, QueueMetrics } from './queue-metrics.ts';
export { registryText } from './registry-text.ts';
export { RequestMetrics } from './request-metrics.ts';
export { endUpgrade, type Routes, RoutesApi, sendJson } from './routes-api.ts';
export { refuse, Scrapes } from './scrapes.ts';
export { type FollowedTls, SecureServer, type SecureServerState } from './secure-server.ts';
export { TlsConfig } from './tls-config.ts';
