/** One requirement of a label selector. */
export type LabelRequirement =
  | { readonly key: string; readonly in: readonly string[] }
  | { readonly key: string; readonly notIn: readonly string[] }
  | { readonly key: string; readonly exists: boolean };

/** `key in (a,b),other,!third`: the query form of a label selector. */
export function labelSelector(...requirements: LabelRequirement[]): string {
  return requirements.map(requirementText).join(',');
}

function requirementText(requirement: LabelRequirement): string {
  if ('in' in requirement) return `${requirement.key} in (${requirement.in.join(',')})`;
  if ('notIn' in requirement) return `${requirement.key} notin (${requirement.notIn.join(',')})`;
  return requirement.exists ? requirement.key : `!${requirement.key}`;
}

/** `metadata.name=x,metadata.namespace=y`, with the characters of the syntax escaped in values. */
export function fieldSelector(fields: Readonly<Record<string, string>>): string {
  return Object.entries(fields)
    .map(([field, value]) => `${field}=${value.replace(/[\\,=]/g, (character) => `\\${character}`)}`)
    .join(',');
}
