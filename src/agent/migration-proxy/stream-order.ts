import type { ProxyRole } from './ports.ts';

/** Of numbers that lie further back nobody is waited for: who makes and leaves thousands of connections is not counted one by one. */
const furthest = 1_024;
/** Rows of a frontend's table, one for all numbers with the same rest: so it is never full, which would leave a connection without a row. */
const rows = 4 * furthest;
/** Those that wait look this often whether it is their turn: nothing of a stream wakes another one. */
const lookMs = 2;

/**
 * Lua for HAProxy: the streams of a role dial in the order in which they were accepted, which `sess.number` has, one after the other:
 * the next one when the one before it is connected, with its handshake, or has ended. Its row in the frontend's table lives as long as
 * itself. Who has waited as long as it may passes over all that do not wait here themselves, for instance strangers that show no
 * certificate.
 *
 * A filter, and no action of `tcp-request content`: that one ends when the buffer of the stream is full. It returns and is called again,
 * and does not sleep within Lua: HAProxy 2.6 forgets to wake a stream when the time is over before it has gone to sleep.
 */
export const orderProgram = `
local roles = {}

local function now_ms()
  local now = core.now()
  return now.sec * 1000 + now.usec // 1000
end

local Turn = {}
Turn.__index = Turn

function Turn:new()
  return setmetatable({ name = self.name, wait_ms = self.wait_ms }, Turn)
end

function Turn:start_analyze(txn, channel)
  local role, number = roles[self.name], txn:get_var('sess.number')
  if channel:is_resp() then
    role.next = math.max(role.next, number + 1)
    return filter.CONTINUE
  end
  self.deadline = self.deadline or now_ms() + self.wait_ms
  role.waiting[number] = true
  self:move_on(txn, role, number)
  if role.next < number then
    filter.wake_time(${lookMs})
    return filter.WAIT
  end
  role.waiting[number] = nil
  return filter.CONTINUE
end

-- To the first one that nothing is known of: it has neither been connected nor ended.
function Turn:move_on(txn, role, number)
  role.next = math.max(role.next, number - ${furthest})
  while role.next < number and txn.c:table_conn_cur(role.next % ${rows}, self.name) == 0 do
    role.waiting[role.next] = nil
    role.next = role.next + 1
  end
  if now_ms() < self.deadline then return end
  while role.next < number and not role.waiting[role.next] do role.next = role.next + 1 end
end

core.register_filter('in_turn', Turn, function(turn, arguments)
  turn.name, turn.wait_ms = arguments[1], tonumber(arguments[2])
  roles[turn.name] = { next = 1, waiting = {} }
  return turn
end)
`;

/** `file`: where the program is read from. */
export const orderedGlobal = (roles: readonly ProxyRole[], file: string) => [
  `  lua-load ${file}`,
  ...roles.map((role) => `  set-var proc.accepted_${role} int(0)`),
];

/** Connections are counted when they are accepted, before any handshake. */
export const orderedFrontend = (role: ProxyRole) => [
  `  stick-table type integer size ${rows} store conn_cur`,
  `  tcp-request connection set-var(proc.accepted_${role}) var(proc.accepted_${role}),add(1)`,
  `  tcp-request connection set-var(sess.number) var(proc.accepted_${role})`,
  `  tcp-request connection track-sc0 var(sess.number),mod(${rows})`,
];

/**
 * Nobody waits for longer than `waitMs` for those that were accepted before it, but for a few looks: whoever has waited so long makes it the
 * turn of the first one that waits before it, which goes on at its next look, whenever its own time began.
 */
export const orderedBackend = (role: ProxyRole, waitMs: number) => [`  filter lua.in_turn ${role} ${waitMs}`];
