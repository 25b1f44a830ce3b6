// Gives PocketBase the guarantees of the service: an acknowledged create is on
// disk, and a request without a valid token gets 401.

routerUse($apis.requireAuth('users'))

// All writes go through one connection, which PocketBase opens with
// synchronous = NORMAL.
onBootstrap(event => {
  event.next()
  event.app.nonconcurrentDB().newQuery('PRAGMA synchronous = FULL').execute()
})

// The pool replaces a connection after three idle minutes; this keeps it busy.
cronAdd('synchronous', '* * * * *', () => {
  $app.nonconcurrentDB().newQuery('PRAGMA synchronous = FULL').execute()
})
