/**
 * Owns: which fields of an object belong to whom, and what of an object changes when somebody applies a configuration to it.
 * Must not know: where objects are kept, which types there are, HTTP.
 */
export {
  type ApplyRequest,
  applyTo,
  keepLastApplied,
  managersAfterUpdate,
  managersOfNew,
  type Writing,
} from './apply.ts';
export { type ManagerId, Managers } from './managers.ts';
