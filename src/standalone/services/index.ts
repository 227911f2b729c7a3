/**
 * Owns: Services of the standalone node: their addresses and ports of the machine, the pods behind them, what of them is refused, in words.
 * Must not know: packet filters, bridges, DNS (the pod network does that), VMIs.
 */
export { NodeServices } from './node-services.ts';
