import type { MigrationProxies } from './ports.ts';

/** With `--live-migration=false`: migrations are refused in words, and nothing is ever open. */
export function noMigrationProxy(address: string): MigrationProxies {
  let unavailable =
    'this node agent cannot carry the streams of a live migration: it was started with --live-migration=false';
  const refuse = async () => {
    throw new Error(unavailable);
  };
  const nothing = async () => undefined;
  return {
    supported: false,
    get unavailable() {
      return unavailable;
    },
    address,
    outliveAgent: false,
    resumeMs: 0,
    stallMs: 0,
    targetPorts: () => undefined,
    hasSource: () => false,
    migrationOf: () => undefined,
    sourceEnded: () => undefined,
    sourceStalledSeconds: () => 0,
    openTarget: refuse,
    openSource: refuse,
    closeTarget: nothing,
    closeSource: nothing,
    open: 0,
    figures: () => [],
    refuse: (reason) => {
      unavailable = reason;
    },
    onChange: () => () => undefined,
  };
}
