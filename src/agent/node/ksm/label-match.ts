/** As Kubernetes does it: all requirements hold; an empty selector selects everything. */
export function selects(
  { matchLabels = {}, matchExpressions = [] }: LabelSelector,
  labels: Readonly<Record<string, string>>,
): boolean {
  const has = (key: string) => Object.hasOwn(labels, key);
  return (
    Object.entries(matchLabels).every(([key, value]) => has(key) && labels[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      switch (operator) {
        case 'In':
          return has(key) && values.includes(labels[key] ?? '');
        case 'NotIn':
          return !has(key) || !values.includes(labels[key] ?? '');
        case 'Exists':
          return has(key);
        case 'DoesNotExist':
          return !has(key);
        default:
          return operator satisfies never;
      }
    })
  );
}

import type { LabelSelector } from '../../../cluster-config/index.ts';
