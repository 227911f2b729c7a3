import { observedApiVersion } from '../../api/index.ts';
import type { ApiObject } from '../object.ts';

/** A new object gets at once what its controller would write first: the finalizer by which it is kept, and the version it is known by. */
export function takeIn({ metadata }: ApiObject, finalizer: string): void {
  metadata.finalizers = [...new Set([...(metadata.finalizers ?? []), finalizer])];
  metadata.annotations = { ...metadata.annotations, ...observedApiVersion };
}
