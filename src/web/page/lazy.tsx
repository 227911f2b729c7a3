import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useLayoutEffect } from 'preact/hooks';
import { Nothing } from './elements.tsx';
import { messageOf } from './words.ts';

type Loaded<P> =
  | { readonly kind: 'none' }
  | { readonly kind: 'loaded'; readonly Found: ComponentType<P> }
  | { readonly kind: 'failed'; readonly error: unknown };

/** A component in a file of its own, which is fetched when it is first shown, and again after it could not be had. */
export function lazily<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  const loaded = signal<Loaded<P>>({ kind: 'none' });
  const fetchIt = async () => {
    if (loaded.value.kind === 'loaded') return;
    loaded.value = await load().then(
      (Found) => ({ kind: 'loaded' as const, Found }),
      (error: unknown) => ({ kind: 'failed' as const, error }),
    );
  };
  return function Lazy(props: P) {
    useLayoutEffect(() => void fetchIt(), []);
    const now = loaded.value;
    if (now.kind === 'loaded') return <now.Found {...props} />;
    if (now.kind === 'none') return <Nothing>One moment…</Nothing>;
    return (
      <Nothing>
        This part of the page cannot be had: {messageOf(now.error)}{' '}
        <button type="button" onClick={() => void fetchIt()}>
          Try again
        </button>
      </Nothing>
    );
  };
}
