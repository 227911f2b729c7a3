/**
 * Owns: virt-controller's HTTPS server of health, leadership and metrics: its routes, and the files of its certificate.
 * Must not know: what controllers decide, what is counted.
 */
export { StatusServer, type StatusServerOptions } from './status-server.ts';
