package scan
import ("testing";"fmt")
func TestZZ(t *testing.T){
 s,_:=New(nil)
 for _,r:=range s.rules { if r.grade()==Confirmed && r.within==0 { lit:=""; if r.x!=nil {lit=r.x.literal}; if len(lit)<3 { fmt.Println(r.id,r.family,r.words,r.look!=nil,r.expr)}}}
}
