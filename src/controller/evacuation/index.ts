/**
 * Owns: emptying a node: which VMIs are to leave it, a migration for each, and their marks when the node is to be used again.
 * Must not know: how migrations are carried out, who drains.
 */
export { EvacuationController } from './controller.ts';
export { evacuationRules } from './decide.ts';
