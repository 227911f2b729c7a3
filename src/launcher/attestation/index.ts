/**
 * Owns: what a guest with AMD SEV proves to its owner before it runs: the processor's certificates, what was measured of it, the owner's secret.
 * Must not know: how the guest came to be paused, the command server, the agent.
 */
export { SevAttestation } from './sev-attestation.ts';
