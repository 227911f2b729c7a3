import { useLayoutEffect, useState } from 'preact/hooks';

/** Made with the component, closed with it. */
export function useOwned<T extends { close(): void }>(make: () => T): T {
  const [owned] = useState(make);
  useLayoutEffect(() => () => owned.close(), [owned]);
  return owned;
}
