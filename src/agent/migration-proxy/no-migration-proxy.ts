import type { MigrationProxies } from './ports.ts';

/** Until the migration proxies are built: migrations are refused in words, and nothing is ever open. */
export function noMigrationProxy(address: string): MigrationProxies {
  let unavailable = 'this node agent cannot carry the streams of a live migration yet';
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
    targetPorts: () => undefined,
    hasSource: () => false,
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
