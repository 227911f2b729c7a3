/**
 * Owns: what is known of the DataVolumes that fill claims, followed from the first such claim or template on.
 * Must not know: VMIs, VMs, what is done about it.
 */
export {
  type ClaimFilling,
  DataVolumes,
  detailOf,
  type FillingState,
  type KnownDataVolume,
  stateOf,
} from './data-volumes.ts';
