import { type FieldError, forbiddenField, invalidField } from '../errors.ts';
import { at, type JsonObject, textAt } from '../object.ts';

/** A guest would start all the same: of two the one is lost, and QEMU takes a zone that it does not know for UTC. */
export function checkClock(spec: JsonObject, field: string): FieldError[] {
  const clock = at(spec, 'domain', 'clock');
  const path = `${field}.domain.clock`;
  const timezone = textAt(clock, 'timezone') ?? '';
  if (timezone === '') return [];
  if (at(clock, 'utc') !== undefined && at(clock, 'utc') !== null) {
    return [forbiddenField(path, 'a clock runs by either utc or timezone: remove one of them')];
  }
  return isTimezone(timezone) ? [] : [invalidField(`${path}.timezone`, timezone, 'must be one such as Europe/Berlin')];
}

function isTimezone(timeZone: string): boolean {
  // Offsets such as +01:00 are none of the names that a C library knows.
  if (/^[+-]/.test(timeZone)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone });
    return true;
  } catch {
    return false;
  }
}
