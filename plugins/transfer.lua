-- For loadtest/run compare --plugin transfer.so --script transfer.lua, and for wrk itself.
wrk.method = "POST"
wrk.path = "/transfers"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [[{"from":{"id":48210,"firstName":"Alexandra","lastName":"Hamilton","address":{"street":"1600 Commonwealth Avenue, Unit 121","city":"Boston","state":"MA","zip":"02135"},"email":"alexandra@example.com"},"to":{"id":73516,"firstName":"Jonathan","lastName":"Whitfield","address":{"street":"742 Evergreen Terrace","city":"Springfield","state":"OR","zip":"97477"},"email":"jon.whitfield@example.org"},"amount":125000,"sendOn":"2026-03-14T09:26:53Z"}]]
