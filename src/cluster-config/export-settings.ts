import { isRecord, memberAt, parseGoDurationMs } from '../base/index.ts';
import type { LauncherPodSettings } from './launcher-pod-settings.ts';

type Amounts = LauncherPodSettings['sideContainers'][string]['requests'];

/** What the KubeVirt object says about exporter pods. */
export interface ExporterPodSettings {
  readonly resources: { readonly requests: Amounts; readonly limits: Amounts };
  /** How long a server's certificate lasts, and what is left of it when it is replaced. */
  readonly certificates: { readonly durationMs: number; readonly renewBeforeMs: number };
}

const dayMs = 24 * 3_600_000;

/** `strategy` is `spec.certificateRotateStrategy`. Upstream's defaults; durations that are none count as not given. */
export function readExporterPodSettings(
  { sideContainers }: LauncherPodSettings,
  strategy: unknown,
): ExporterPodSettings {
  const given = sideContainers.vmexport;
  const requests = { cpu: '100m', memory: '200Mi', ...given?.requests };
  return {
    resources: { requests, limits: { cpu: '1', memory: '1024Mi', ...given?.limits } },
    certificates: certificateTimes(memberAt(strategy, 'selfSigned')),
  };
}

/** A server's own times; `certRotateInterval` is older, and goes first. */
function certificateTimes(selfSigned: unknown): ExporterPodSettings['certificates'] {
  const server = memberAt(selfSigned, 'server');
  const durationMs =
    durationOf(memberAt(selfSigned, 'certRotateInterval')) ?? durationOf(memberAt(server, 'duration')) ?? dayMs;
  const renewBeforeMs = (isRecord(server) && durationOf(server.renewBefore)) || durationMs / 5;
  return { durationMs, renewBeforeMs: Math.min(renewBeforeMs, durationMs) };
}

function durationOf(value: unknown): number | undefined {
  const ms = typeof value === 'string' ? parseGoDurationMs(value) : undefined;
  return ms !== undefined && ms > 0 ? ms : undefined;
}
